"""Trained models for other programs: ONNX and safetensors files."""
