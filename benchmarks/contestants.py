"""A full private step, in several ways, for steps.py. All do the same work: clip every example, add Gaussian noise,
divide by a fixed batch, and take a step of torch.optim.SGD.

The peers are run as their users would write them, each with its own noise (torch's generator, in single precision).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from workloads import BATCH, problem

from discreet import EngineOptions, Plan, Training
from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, private_parameters
from discreet.core.events import Gaussian
from discreet.core.processes import keep_freed_memory
from discreet.core.release import Receipt
from discreet.mechanism import gaussian_release, grid_for
from discreet.randomness import NOISE_SAMPLERS, Purpose, SystemStream, new_run_key
from discreet.training.apply import apply

NORM, MULTIPLIER, RATE = 1.0, 1.1, 1e-3

_BATCHES = 20

Step = Callable[[], object]


@dataclass(frozen=True)
class Data:
    """A model, and rows from which batches are drawn."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    batch: int


@dataclass(frozen=True)
class Setting:
    """What is timed, apart from who takes the step."""

    name: str
    batch: int | None = None
    device: str = "cpu"
    autocast: bool = False
    compiled: bool = False
    tiny: bool = False

    def problem(self) -> tuple[nn.Module, Tensor, Tensor]:
        return problem(self.name, self.batch, self.device, self.tiny)

    def data(self) -> Data:
        """The model with as many rows as twenty batches have."""
        batch = self.batch or (2 if self.tiny else BATCH[self.name])
        return Data(*problem(self.name, _BATCHES * batch, self.device, self.tiny), batch)

    def precision(self) -> AbstractContextManager[object]:
        """The context of the forward pass."""
        return torch.autocast(self.device, torch.bfloat16) if self.autocast else nullcontext()


class Ours:
    """The parts of a private step, as a session takes them."""

    def __init__(self, setting: Setting) -> None:
        keep_freed_memory()
        self.setting, self.loss = setting, nn.CrossEntropyLoss()
        self.model, self.inputs, self.targets = setting.problem()
        if setting.compiled:  # parameters are out of reach inside a compiled module, so only modules without are
            for module in self.model.modules():
                if not any(True for _ in module.parameters()):
                    module.compile()
        self.engine, self.optimizer = ENGINES["bookkeeping"], torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.parameters, self.stream = private_parameters(self.model), SystemStream.start(new_run_key(), 0)
        self.clip, self.position = Clip(NORM, grid_for(Gaussian(MULTIPLIER), NORM)), 0

    def clipping(self) -> dict[str, Tensor]:
        """The engine alone."""
        with self.setting.precision():
            return self.engine.clipped_sum(self.model, self.loss, Chunk(self.inputs, self.targets), self.clip)

    def release(self, sums: dict[str, Tensor]) -> None:
        """From the sums to the optimizer's step."""
        accumulator = Accumulator(self.parameters)
        accumulator.add(sums)
        total = accumulator.total(self.engine, self.clip, 2 * len(self.inputs))
        release = gaussian_release(total, self._receipt(), self.stream, NOISE_SAMPLERS["fast"])
        apply(release, self.parameters, self.optimizer, len(self.inputs))

    def step(self) -> None:
        """A whole private step."""
        self.release(self.clipping())

    def noise(self) -> None:
        """The noise alone."""
        size = sum(parameter.numel() for parameter in self.parameters.values())
        substream = self.stream.substream(Purpose.NOISE, self._receipt().position)
        NOISE_SAMPLERS["fast"].draw(substream, size, 2**30)

    def _receipt(self) -> Receipt:
        self.position += 1
        return Receipt("benchmark", 0, self.position, Gaussian(MULTIPLIER))


def session(setting: Setting, chunks: int = 1) -> Step:
    """A step of the public loop on Poisson batches of the expected size of so many chunks: everything that a user waits
    for."""
    data = setting.data()
    trained = [one for one in data.model.parameters() if one.requires_grad]
    model, optimizer, loss = data.model, torch.optim.SGD(trained, lr=RATE), nn.CrossEntropyLoss()
    plan = Plan.poisson(
        population=len(data.inputs),
        batch=chunks * data.batch,
        steps=10**5,
        clip_norm=NORM,
        noise_multiplier=MULTIPLIER,
        delta=1e-6,
    )
    folder = Path(tempfile.mkdtemp()) / "run"
    autocast = torch.bfloat16 if setting.autocast else None
    engine = EngineOptions("bookkeeping", autocast=autocast, physical_batch=None if chunks == 1 else data.batch)
    run = Training(plan, model, loss, optimizer, (data.inputs, data.targets), run=str(folder), engine=engine)
    opened = ExitStack().enter_context(run.session())

    def step() -> None:
        with opened.step() as one:
            one.add_all(loss)

    return step


def plain(setting: Setting, chunks: int = 1) -> Step:
    """An ordinary step of SGD, on a random batch that it fetches; of so many chunks, whose gradients it adds up."""
    data = setting.data()
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(data.model.parameters(), lr=RATE)
    forward = torch.compile(data.model) if setting.compiled else data.model

    def value() -> Tensor:
        rows = torch.randint(len(data.inputs), (data.batch,), device=data.inputs.device)
        scores, targets = forward(data.inputs[rows]), data.targets[rows]
        if scores.dim() > 2:  # tokens one after the other, which is faster
            scores, targets = scores.transpose(1, 2).flatten(0, 1), targets.flatten()
        return loss(scores, targets) / chunks

    return _passes(setting, value, optimizer, chunks)


def _passes(setting: Setting, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer, count: int = 1) -> Step:
    """Passes forward and back, and a step."""

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(count):
            with setting.precision():
                value = loss()
            value.backward()
        optimizer.step()

    return step


def opacus_hooks(setting: Setting) -> Step:
    """Opacus, gradients of every example from hooks. `ImportError` if it is not installed."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model, inputs, targets = setting.problem()
    wrapped, loss = GradSampleModule(model), nn.CrossEntropyLoss()
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=MULTIPLIER,
        max_grad_norm=NORM,
        expected_batch_size=len(inputs),
    )

    return _passes(setting, lambda: loss(wrapped(inputs), targets), optimizer)


def opacus_ghost(setting: Setting) -> Step:
    """Opacus, norms without gradients and a second backward pass, by hooks on the model (`wrap_model=False`).
    `ImportError` if it is not installed."""
    from opacus.grad_sample.utils import prepare_module
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model, inputs, targets = setting.problem()
    hooks = prepare_module(model, "ghost", wrap_model=False, max_grad_norm=NORM, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=MULTIPLIER,
        max_grad_norm=NORM,
        expected_batch_size=len(inputs),
    )
    loss = DPLossFastGradientClipping(hooks, optimizer, nn.CrossEntropyLoss())

    def value() -> Tensor:
        scores = model(inputs)
        if targets.dim() == 1:
            return loss(scores, targets)
        tokens = scores.transpose(1, 2).flatten(0, 1)  # a token's loss each; Opacus takes the mean of a row
        return loss(tokens, targets.flatten(), shape=targets.shape)

    return _passes(setting, value, optimizer)


def fastdp(setting: Setting) -> Step:
    """FastDP (book-keeping, MixOpt), with its trick of one origin parameter. `ImportError` if there is no checkout."""
    from fastDP import PrivacyEngine

    data = setting.data()
    model, inputs, targets = setting.problem()
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=RATE)
    engine = PrivacyEngine(
        model,
        batch_size=len(inputs),
        sample_size=len(data.inputs),
        epochs=1,
        max_grad_norm=NORM,
        noise_multiplier=MULTIPLIER,
        clipping_mode="MixOpt",
        clipping_fn="Abadi",
        origin_params=[name for name, _ in model.named_parameters() if name.endswith("bias")][:1] or None,
    )
    engine.attach(optimizer)

    def step() -> None:
        with setting.precision():
            value = loss(model(inputs), targets)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def of_torch_func(setting: Setting, *, compiled: bool) -> Step:
    """vmap(grad), compiled or not, and the rest as one would write it."""
    model, inputs, targets = setting.problem()
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=RATE)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    parameters = {name: parameter.detach() for name, parameter in trained.items()}
    frozen = {name: parameter for name, parameter in model.named_parameters() if name not in trained}
    buffers = frozen | dict(model.named_buffers())

    def of_one(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        output = functional_call(model, {**own, **buffers}, (x.unsqueeze(0),))
        return loss(output, y.unsqueeze(0))

    def sums(own: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        rows = vmap(grad(of_one), in_dims=(None, 0, 0))(own, inputs, targets)
        norms = torch.stack([row.flatten(1).norm(2, 1) for row in rows.values()]).norm(2, 0)
        weights = (NORM / (norms + 1e-6)).clamp(max=1.0)
        return {name: torch.einsum("i,i...->...", weights, row) for name, row in rows.items()}

    clipped = torch.compile(sums) if compiled else sums

    def step() -> None:
        with setting.precision():
            found = clipped(parameters, inputs, targets)
        for name, parameter in trained.items():
            noise = torch.randn_like(parameter) * (MULTIPLIER * NORM)
            parameter.grad = (found[name] + noise) / len(inputs)
        optimizer.step()
        optimizer.zero_grad()

    return step


PEERS: dict[str, Callable[[Setting], Step]] = {
    "opacus hooks": opacus_hooks,
    "opacus ghost": opacus_ghost,
    "fastdp": fastdp,
    "vmap": lambda setting: of_torch_func(setting, compiled=False),
    "vmap compiled": lambda setting: of_torch_func(setting, compiled=True),
}
"""Other ways to take a private step, which need not be installed."""
