"""The planner's formulas against tiny models that are really built, trained and asked."""

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig as PeftLoraConfig
from peft import get_peft_model
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

from mh_train.cli import main
from mh_train.config import compose
from mh_train.config.plan import GB, Machine, engine_memory, make_plan, parse_gpus, trainer_memory
from mh_train.config.schema import LearnConfig
from mh_train.config.shapes import KNOWN, Shape, from_config
from mh_train.learn.learner import Learner
from mh_train.learn.logprobs import pack
from mh_train.learn.rows import Row

TINY = Qwen2Config(
    vocab_size=64,
    hidden_size=64,
    intermediate_size=192,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
    max_position_embeddings=2048,
)
SHAPE = from_config(TINY.to_dict())
LONG = "experiment=memharness_alfworld_7b"


def tiny_run(*words: str):
    """A run whose model is float32, so that every width is known."""
    fixed = ("model.dtype=float32", "env.prompt_tokens=200", "env.completion_tokens=56", "learn.token_budget=512")
    return compose(["experiment=toy", "learn.kl=0", *fixed, *words])


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Qwen2.5-0.5B", 494_032_768),
        ("Qwen2.5-1.5B", 1_543_714_304),
        ("Qwen2.5-3B", 3_085_938_688),
        ("Qwen2.5-7B", 7_615_616_512),
    ],
)
def test_parameters_of_the_papers_models(name: str, count: int):
    assert KNOWN[name].parameters == count


def test_parameters_and_adapters_of_a_built_model():
    model = Qwen2ForCausalLM(TINY)
    assert sum(p.numel() for p in model.parameters()) == SHAPE.parameters
    targets = ["q_proj", "v_proj", "down_proj"]
    adapted = get_peft_model(model, PeftLoraConfig(r=8, target_modules=targets, task_type="CAUSAL_LM"))
    assert sum(p.numel() for p in adapted.parameters() if p.requires_grad) == SHAPE.lora(8, targets)


def rows() -> list[Row]:
    """512 tokens in two rows of the length that the plan assumes."""
    one = tuple(range(8)) * 32
    return [Row(one[:200], one[200:], advantage, (-4.0,) * 56, "t", "act") for advantage in (1.0, -1.0)]


def test_weights_gradients_and_adam_states_are_the_bytes_of_the_tensors():
    plan = trainer_memory(tiny_run(), SHAPE, 1, "ddp")
    learner = Learner(Qwen2ForCausalLM(TINY), LearnConfig(kl=0.0, token_budget=512), Accelerator(cpu=True))
    gradients = []
    for parameter in learner.model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: gradients.append(p.grad.nbytes))
    learner.update(rows(), 1)
    states = [t.nbytes for one in learner.optimizer.state_dict()["state"].values() for t in one.values() if t.ndim]
    assert plan["weights"] == sum(p.nbytes for p in learner.model.parameters())
    assert plan["gradients"] == sum(gradients)
    assert plan["optimizer"] == sum(states)


def test_the_kv_cache_is_the_bytes_of_its_tensors():
    cache = DynamicCache()
    with torch.no_grad():
        Qwen2ForCausalLM(TINY)(torch.zeros(3, 256, dtype=torch.long), past_key_values=cache)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert engine_memory(tiny_run(), SHAPE, 3)["KV cache"] == held


@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_within_a_factor_of_what_backward_keeps(checkpointing: bool):
    """Factor 1.5 without checkpointing. With it the plan adds the layer that is recomputed, so it lies above what the
    forward pass alone keeps, and below the plan without."""
    plans = {
        on: trainer_memory(tiny_run(f"model.gradient_checkpointing={on}"), SHAPE, 1, "ddp") for on in (True, False)
    }
    model = Qwen2ForCausalLM(TINY)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    learner = Learner(model, LearnConfig(kl=0.0), Accelerator(cpu=True))
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        learner.scorer(**pack(rows(), torch.device("cpu"), torch.float32).inputs())
    held = sum(size for place, size in kept.items() if place not in own)
    planned = plans[checkpointing]["activations"]
    if checkpointing:
        assert held < planned < plans[False]["activations"]
    else:
        assert planned / 1.5 < held < planned * 1.5


def test_sharding_divides_what_it_should():
    config = compose([LONG])
    one, many = (trainer_memory(config, KNOWN["Qwen2.5-7B"], n, "fsdp2") for n in (8, 16))
    zero2 = trainer_memory(config, KNOWN["Qwen2.5-7B"], 8, "zero2")
    ddp = trainer_memory(config, KNOWN["Qwen2.5-7B"], 8, "ddp")
    assert one["optimizer"] == 2 * many["optimizer"] == ddp["optimizer"] / 8
    assert zero2["weights"] == ddp["weights"] > one["weights"]
    assert zero2["gradients"] == ddp["gradients"] / 8


def test_a_quantised_base_is_a_quarter_and_its_adapter_is_trained():
    full, small = (
        trainer_memory(compose([LONG, f"lora={name}"]), KNOWN["Qwen2.5-7B"], 1, "ddp") for name in ("all", "qlora")
    )
    assert small["weights"] < 0.45 * full["weights"]
    assert small["optimizer"] == full["optimizer"] < 1 * GB


def test_the_papers_run_needs_sharding_and_the_plan_says_so(capsys):
    assert main(["plan", LONG, "gpus=8x80GB"]) == 1
    told = capsys.readouterr().out
    assert "warning: The update needs" in told and "launcher.strategy=fsdp2" in told
    assert main(["plan", LONG, "gpus=8×80GB", "nodes=2", "launcher.strategy=fsdp2"]) == 0
    assert "16 replica(s), 8 episodes each" in capsys.readouterr().out


def test_gpus_are_a_number_and_their_memory():
    assert parse_gpus("8x80GB") == parse_gpus("8×80") == (8, 80 * GB)
    assert parse_gpus("2") == (2, 80 * GB)
    with pytest.raises(ValueError, match="write for example gpus=8x80GB"):
        parse_gpus("eight")


def test_an_unknown_model_is_a_sentence(capsys):
    assert main(["plan", LONG, "model.path=somebody/else"]) == 2
    assert "give a folder with its config.json" in capsys.readouterr().err


def test_more_processes_than_groups_is_told():
    plan = make_plan(compose(["experiment=toy", "rollout.tasks=2"]), Machine(1, 4), "ddp")
    assert any("4 processes share 2 groups" in text for text in plan.warnings)
    assert isinstance(SHAPE, Shape)
