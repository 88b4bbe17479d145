"""The sections of a training's configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lmk_core.pooling import PoolingConfig
from lmk_train.config.base import CONTENT, TRANSIENT, Section

PoolingField = Annotated[
    PoolingConfig,
    PlainValidator(PoolingConfig.from_dict),
    PlainSerializer(lambda pooling: pooling.to_dict(), return_type=dict[str, Any]),
    WithJsonSchema({"type": "object", "description": "a pooling: its kind and what belongs to that kind"}),
]
"""A :class:`lmk_core.pooling.PoolingConfig`, read from a mapping and written as the shortest one that equals it."""


def check_trainable(pooling: PoolingConfig) -> PoolingConfig:
    """The pooling itself, if weights can be trained with it."""
    if pooling.kind == "multi_cls":
        raise PydanticCustomError(
            "pooling_not_trained",
            "'multi_cls' is a way to read a trained 'cls' model and is never trained; "
            "valid kinds: cls, mean, mean_at_k, latent_attention, landmark",
        )
    return pooling


class ModelConfig(Section):
    """The encoder that is fine-tuned."""

    path: str = Field(min_length=1, json_schema_extra=CONTENT)
    """Folder of the encoder, or its name on the Hugging Face hub."""

    revision: str | None = None
    """Branch, tag or commit of a model on the hub; null is its main branch."""


class OptimConfig(Section):
    """AdamW, with a warm-up and a linear decay to zero."""

    steps: NonNegativeInt
    """Optimizer steps; 0 saves the model as it is before any training."""

    batch_size: PositiveInt
    """Rows of one step, over all processes; their passages are each other's negatives."""

    learning_rate: PositiveFloat
    """The highest learning rate, reached at the end of the warm-up."""

    weight_decay: NonNegativeFloat = 0.0
    """Decay of AdamW on matrices; vectors (biases, norms) are never decayed."""

    warmup_steps: NonNegativeInt = 0
    """Steps in which the learning rate rises, from `1 / warmup_steps` of the highest in the first to all of it."""

    warmup: Literal["linear", "logarithmic"] = Field(default="linear", json_schema_extra={"identity_absent": "linear"})
    """The rise's shape. `logarithmic`, as DeepSpeed's default is reported, is `log(done + 1) / log(warmup_steps)`."""

    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's two decay rates of the moments, each at least 0 and below 1."""

    eps: PositiveFloat = 1e-8
    """AdamW's epsilon."""

    gradient_clip: PositiveFloat | None = 1.0
    """The gradient's largest norm over all parameters; null does not clip."""

    @model_validator(mode="after")
    def _check_ranges(self) -> OptimConfig:
        if not all(0 <= beta < 1 for beta in self.betas):
            raise PydanticCustomError(
                "betas", "betas must each be at least 0 and below 1, found {betas}", {"betas": list(self.betas)}
            )
        if self.steps and self.warmup_steps > self.steps:
            raise PydanticCustomError(
                "warmup_steps",
                "warmup_steps ({warmup}) must not be larger than steps ({steps})",
                {"warmup": self.warmup_steps, "steps": self.steps},
            )
        return self


class LossConfig(Section):
    """InfoNCE over the batch's passages, or distillation of a teacher's scores where a row has them."""

    temperature: PositiveFloat = 0.02
    """Divides the cosine similarities."""

    distillation: Literal["auto", "off"] = "auto"
    """`auto`: rows with teacher scores are distilled, the others use InfoNCE. `off`: scores are ignored."""

    teacher_temperature: PositiveFloat = 1.0
    """Divides the teacher's scores before their softmax."""

    bidirectional: bool = Field(default=False, json_schema_extra={"identity_absent": False})
    """Also contrasts each row's positive with all queries; the loss is the mean of both directions."""

    mask_duplicates: bool = Field(default=False, json_schema_extra={"identity_absent": False})
    """Leaves out other rows' passages that equal one of a row's own, and other rows' positives of an equal query."""

    matryoshka: tuple[PositiveInt, ...] | None = Field(
        default=None, min_length=1, json_schema_extra={"identity_absent": None}
    )
    """Widths that vectors are cut to: the loss is the mean over them. Name the full width too; null has it alone."""


class RuntimeConfig(Section):
    """Where and how the training runs. None of it counts in the identity.

    Another accelerator, number of devices or of threads, another size of chunks, padding instead of packing, or other
    logits_at_once add the same numbers in another order: the weights are close, not equal. With dropout, devices,
    chunks and packing draw others too, of the same distribution. The rest changes no bit of them.
    """

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = Field(default="auto", json_schema_extra=TRANSIENT)
    """The hardware; `auto` takes a GPU when there is one."""

    devices: PositiveInt = Field(default=1, json_schema_extra=TRANSIENT)
    """Processes of each node, one a device; they share the rows of a step."""

    nodes: PositiveInt = Field(default=1, json_schema_extra=TRANSIENT)
    """Nodes. More than one are started by a scheduler, as tasks of one step of srun."""

    num_workers: NonNegativeInt | None = Field(default=None, json_schema_extra=TRANSIENT)
    """Processes that lay out the batches of the next steps; 0 does it in the training process, between steps. Null is
    1 where CUDA computes, which would wait, and else 0."""

    threads: PositiveInt | None = Field(default=None, json_schema_extra=TRANSIENT)
    """CPU threads of torch; null leaves torch's own choice. Sums round differently with another number."""

    log_every: PositiveInt = Field(default=10, json_schema_extra=TRANSIENT)
    """Steps between two records of the training metrics."""

    validate_every: PositiveInt | None = Field(default=None, json_schema_extra=TRANSIENT)
    """Steps between two validations; null validates at the end alone."""

    checkpoint_every: PositiveInt | None = Field(default=500, json_schema_extra=TRANSIENT)
    """Steps between two checkpoints; null writes none."""

    packed: bool = Field(default=True, json_schema_extra=TRANSIENT)
    """Encodes texts one behind the other, without padding, where the encoder can; the event `padded` says where not.
    false always pads."""

    chunk_tokens: PositiveInt | None = Field(default=None, json_schema_extra=TRANSIENT)
    """Tokens, with the padding where there is any, that are held for a gradient at once: GradCache, which encodes the
    rest twice. Null holds the whole batch. Halved on its own when a GPU's memory runs out; never changes a gradient."""

    activation_checkpointing: bool = Field(default=False, json_schema_extra=TRANSIENT)
    """Keeps of each layer its input alone and computes the layer again on the way back: less memory, for about a third
    more work. With it no gradient changes, nor what dropout drops."""

    logits_at_once: PositiveInt = Field(default=2**20, json_schema_extra=TRANSIENT)
    """Logits, queries times passages, that are computed at once; 4 bytes each, and a few copies."""

    divergence: float | None = Field(default=2.0, gt=1, json_schema_extra=TRANSIENT)
    """Stops a training whose loss, as the mean of 50 steps, is this many times its lowest and also above that of the
    first 50; null never does."""
