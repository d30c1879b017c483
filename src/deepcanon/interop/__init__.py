"""Models from and for other programs: ONNX and safetensors files, pretrained weights of Hugging Face."""
