"""Scores the prompts of `steps.py` with a real model: how likely is each step that the agent took?

Nothing is sampled: the recorded step is scored token by token. Needs torch, transformers, tokenizers and gguf."""

import gzip
import json
import re
import time

import numpy
import torch
from gguf import GGUFReader, dequantize
from tokenizers import Tokenizer
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

# Context of the model as it was trained, and the factor by which YaRN stretches it.
TRAINED, STRETCHED = 32_768, 4
PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
ENDS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def tokenizer(file):
    """The tokenizer that a model file holds, kept next to the file."""
    kept = file.with_suffix(".tokenizer.json")
    if not kept.exists():
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).backend_tokenizer.save(str(kept))
    return Tokenizer.from_file(str(kept))


def model(file, device):
    """Qwen2 from a GGUF file, in bfloat16."""
    reader = GGUFReader(file)
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def field(name):
        found = reader.fields[f"qwen2.{name}"]
        return found.parts[found.data[0]][0]

    def name(tensor):
        if tensor in ENDS:
            return ENDS[tensor]
        _, layer, part, kind = tensor.split(".")
        return f"model.layers.{layer}.{PARTS[part]}.{kind}"

    def weights(tensor):
        shape = [int(size) for size in reversed(tensor.shape)]
        values = numpy.array(dequantize(tensor.data, tensor.tensor_type), dtype=numpy.float32)
        return torch.from_numpy(values).reshape(shape).to(torch.bfloat16)

    base = float(field("rope.freq_base"))
    rope = {"rope_type": "yarn", "rope_theta": base, "factor": float(STRETCHED), "original_max_position_embeddings": TRAINED}
    config = Qwen2Config(
        vocab_size=int(tensors["token_embd.weight"].shape[1]),
        hidden_size=int(field("embedding_length")),
        intermediate_size=int(field("feed_forward_length")),
        num_hidden_layers=int(field("block_count")),
        num_attention_heads=int(field("attention.head_count")),
        num_key_value_heads=int(field("attention.head_count_kv")),
        rms_norm_eps=float(field("attention.layer_norm_rms_epsilon")),
        max_position_embeddings=TRAINED * STRETCHED,
        tie_word_embeddings="output.weight" not in tensors,
        use_cache=False,
    )
    config.rope_theta, config.rope_parameters, config.rope_scaling = base, rope, rope
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    built = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    state = {name(tensor): weights(tensors[tensor]) for tensor in tensors}
    missing, unexpected = built.load_state_dict(state, strict=False)
    missing = [one for one in missing if "rotary" not in one and not (one == "lm_head.weight" and config.tie_word_embeddings)]
    if missing or unexpected:
        raise SystemExit(f"the model file does not fit: {missing[:3]} {list(unexpected)[:3]}")
    return built.to(device).eval()


@torch.no_grad()
def likelihoods(built, ids, spans, device):
    """For each span of tokens: their log-probabilities, and whether each was the model's first choice."""
    hidden = built.model(torch.tensor([ids], device=device)).last_hidden_state[0]
    for start, end in spans:
        logits = built.lm_head(hidden[start - 1 : end - 1]).float()
        wanted = torch.tensor(ids[start:end], device=device)
        chances = logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(1)
        yield chances.tolist(), (logits.argmax(1) == wanted).tolist()


def spans_of(text, words):
    """Where identifiers stand in a text, the longest first, without overlaps."""
    taken = [False] * len(text)
    for word in sorted(words, key=len, reverse=True):
        for found in re.finditer(re.escape(word), text):
            start, end = found.span()
            if not any(taken[start:end]):
                taken[start:end] = [True] * (end - start)
                yield start, end, words[word]


def scored(step, way, chances, hits, offsets, length):
    """The result of one step after one prompt: nats, tokens, and identifiers right by kind."""
    right = {}
    for start, end, kind in spans_of(step["target"], step["ids"]):
        inside = [at for at, (first, last) in enumerate(offsets) if first < end and last > start]
        count = right.setdefault(kind, [0, 0])
        count[0] += all(hits[at] for at in inside)
        count[1] += 1
    known = {name: step[name] for name in ("sid", "step", "since")}
    return {**known, "way": way, "tokens": length, "nats": -sum(chances), "n": len(chances), "right": right}


def run(file, prompts, scores, device, seconds):
    """Scores whole sessions one after the other, until the time is up. Writes one line for each step and way.

    A run that was stopped goes on after the sessions that its file has."""
    began, coder = time.time(), tokenizer(file)
    built = model(file, device)
    with gzip.open(prompts, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    steps = {(row["sid"], row["step"]): row for row in rows if "step" in row}
    by_session = {}
    for row in rows:
        if "parts" in row:
            by_session.setdefault(row["sid"], []).append(row)
    with open(scores, "a+") as out:
        out.seek(0)
        done = {json.loads(line)["sid"] for line in out}
        for sid in [sid for sid in by_session if sid not in done]:
            if time.time() - began > seconds:
                break
            results = [result for row in by_session[sid] for result in score_pass(built, coder, row, steps, device)]
            out.writelines(json.dumps(result) + "\n" for result in results)
            out.flush()
            done.add(sid)
            print(f"{len(done)} of {len(by_session)} sessions, {time.time() - began:,.0f} s", flush=True)


def score_pass(built, coder, row, steps, device):
    """The results of all steps of one pass."""
    ids, spans, offsets, targets = [], [], [], dict(row["targets"])
    for at, (head, text, tail) in enumerate(row["parts"]):
        before, inside, after = (coder.encode(part, add_special_tokens=False) for part in (head, text, tail))
        if at in targets:
            spans.append((len(ids) + len(before.ids), len(ids) + len(before.ids) + len(inside.ids)))
            offsets.append(inside.offsets)
        ids += before.ids + inside.ids + after.ids
    found = likelihoods(built, ids[: spans[-1][1]], spans, device)
    for step, span, places, (chances, hits) in zip(targets.values(), spans, offsets, found):
        yield scored(steps[row["sid"], step], row["way"], chances, hits, places, span[0])
