"""Writes the configuration and the word-level tokenizer of a tiny Qwen3 into this folder. Weights: --load-format dummy."""
import json

from tokenizers import Tokenizer, models, pre_tokenizers

VOCABULARY = 4096
UNKNOWN, BEGIN, END = VOCABULARY - 3, VOCABULARY - 2, VOCABULARY - 1


def write(name, value):
    with open(name, "w") as file:
        json.dump(value, file, indent=1)


words = {f"w{i}": i for i in range(UNKNOWN)} | {"<unk>": UNKNOWN, "<bos>": BEGIN, "<eos>": END}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.save("tokenizer.json")

write("tokenizer_config.json", {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>",
    "model_max_length": 4096,
    "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
})
write("config.json", {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
    "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": False, "attention_bias": False, "attention_dropout": 0.0,
    "torch_dtype": "bfloat16", "bos_token_id": BEGIN, "eos_token_id": END, "use_cache": True,
})
write("generation_config.json", {"bos_token_id": BEGIN, "eos_token_id": END})
