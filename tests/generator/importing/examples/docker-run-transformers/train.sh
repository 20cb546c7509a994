#!/bin/sh
# The same twice: from the image, and from the volume.
docker run --gpus all -v /home/me/volume:/volume us-east4-docker.pkg.dev/hf-notebooks/gpu-transformers/gpu_transformers:v1 python3 /app/test_training_bert_base.py

sudo docker run --rm -it --name distilgpt2 --gpus all \
  -v transformers:/volume -e HF_HOME=/volume/.cache/huggingface \
  us-east4-docker.pkg.dev/hf-notebooks/gpu-transformers/gpu_transformers:v1 \
  python3 /volume/test_training_distillgpt2.py
