"""Writes two LoRA adapters of random weights for the tiny model into lora-ad1 and lora-ad2."""
import json
import os

import torch
from safetensors.torch import save_file

LAYERS, RANK = 2, 8
SHAPES = {"q_proj": (64, 64), "v_proj": (64, 64)}

for name, seed in (("ad1", 1), ("ad2", 2)):
    folder = f"lora-{name}"
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(seed)
    weights = {}
    for layer in range(LAYERS):
        for module, (rows, columns) in SHAPES.items():
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            weights[prefix + ".lora_A.weight"] = torch.randn(RANK, columns) * 0.02
            weights[prefix + ".lora_B.weight"] = torch.randn(rows, RANK) * 0.02
    save_file(weights, folder + "/adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 8,
        "target_modules": list(SHAPES),
        "lora_dropout": 0.0,
        "bias": "none",
        "base_model_name_or_path": "tiny",
        "inference_mode": True,
    }
    with open(folder + "/adapter_config.json", "w") as file:
        json.dump(config, file)
