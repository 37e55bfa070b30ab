"""Training of a bi-encoder that reads code: all-MiniLM-L6-v2, fine-tuned on the pairs of `tools.train_encoder`."""
