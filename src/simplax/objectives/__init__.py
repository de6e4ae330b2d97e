"""Losses on logits and clean ids, in nats per token."""
