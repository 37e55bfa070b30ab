"""Exporting models of sentence-transformers and MiniLM to ONNX."""
