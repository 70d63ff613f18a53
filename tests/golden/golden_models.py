"""Six tiny models as transformers builds them, trained for ten steps by torch.optim.AdamW."""
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

STEPS, BATCH, SEQUENCE, VOCABULARY = 10, 2, 32, 128
OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
GRAD_CLIP = 1.0
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.08}
LLAMA_STYLE = COMMON | {"num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
                        "attention_dropout": 0.0}
NO_DROPOUT = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}


def gpt2(**other):
    return GPT2LMHeadModel(GPT2Config(**(COMMON | NO_DROPOUT | {"n_layer": 2, "n_head": 3, "n_positions": 64} | other)))


def qwen2(**other):
    sizes = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(**(LLAMA_STYLE | sizes | other)))


def qwen3():
    sizes = {"hidden_size": 32, "intermediate_size": 72, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12}
    return Qwen3ForCausalLM(Qwen3Config(**(LLAMA_STYLE | sizes | {"tie_word_embeddings": True})))


def llama_scaled():
    # 16 of the 64 positions were "trained on": of the frequencies some stay, some are smoothed, some are divided.
    scaling = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16}
    sizes = {"hidden_size": 32, "intermediate_size": 72, "num_attention_heads": 2, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(**(LLAMA_STYLE | sizes | {"rope_scaling": scaling, "tie_word_embeddings": False})))


MODELS = {
    "gpt2-tied": lambda: gpt2(n_embd=48, n_inner=96),
    "gpt2-untied": lambda: gpt2(n_embd=24, tie_word_embeddings=False),
    "qwen2-tied": lambda: qwen2(tie_word_embeddings=True),
    "qwen2-untied": lambda: qwen2(tie_word_embeddings=False),
    "llama-rope-scaled": llama_scaled,
    "qwen3-tied": qwen3,
}


def disturb(model) -> None:
    """Biases start as zeros and norms as ones, which would hide a wrong index: give each element a value of its own."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)


def save_model(model, folder: Path) -> None:
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def train(model, tokens, folder: Path) -> dict:
    optimizer = torch.optim.AdamW(model.parameters(), lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["eps"],
                                  weight_decay=OPTIMIZER["weight_decay"], foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        loss = model(input_ids=tokens[step], labels=tokens[step]).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            save_file({name: p.grad.clone() for name, p in model.named_parameters()}, folder / "gradients.safetensors")
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return {"losses": losses, "grad_norms": norms}


def write_models(out: Path) -> None:
    torch.set_num_threads(1)
    for index, (name, build) in enumerate(MODELS.items()):
        torch.manual_seed(1234 + index)
        folder = out / name
        folder.mkdir(exist_ok=True)
        model = build()
        model.config._attn_implementation = "eager"
        model.train()
        disturb(model)
        save_model(model, folder)
        # Two batches in turn: what is learned from one shows in its next loss.
        tokens = torch.randint(0, VOCABULARY, (2, BATCH, SEQUENCE)).repeat(STEPS // 2, 1, 1)
        (folder / "tokens.bin").write_bytes(tokens.to(torch.int16).numpy().astype("<u2").tobytes())
        training = {"steps": STEPS, "batch": BATCH, "sequence": SEQUENCE, "optimizer": "adamw", **OPTIMIZER, "grad_clip": GRAD_CLIP}
        expected = {"training": training, **train(model, tokens, folder)}
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
