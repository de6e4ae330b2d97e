"""Pictures: boards on a terminal, as figures and as a page that plays the denoising; curves of sweeps."""
