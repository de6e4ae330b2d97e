"""Other people's packages driving our samplers, each in a module that is imported only when it is used."""
