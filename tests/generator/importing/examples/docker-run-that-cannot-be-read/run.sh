docker run --frobnicate 3 registry.example.com/ml/train:1 train
docker run -e A=1
