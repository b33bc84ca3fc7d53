"""`publish`: from a trained run to the published folder."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import save
from torch import Tensor, nn

from discreet.certificate.canonical import check_values, digest
from discreet.certificate.declared_canaries import canaries_fault
from discreet.certificate.equal_blocks import written_out
from discreet.certificate.files import CERTIFICATE, RELEASED, certificate_fault, read_certificate
from discreet.certificate.model_spec import ModelSpec, of_module
from discreet.clipping.admission.admission import private_names
from discreet.clipping.digests import check_unchanged, state_digests
from discreet.core.disk import check_target, sync_folder, whole_folder, write_durably
from discreet.core.errors import InputError, PrivacyViolation, kind_of, typed
from discreet.core.guarantee import Guarantee
from discreet.publication.adapters import Adapters
from discreet.publication.certificate import TrainedRun, certificate
from discreet.publication.pages.card import model_card
from discreet.publication.pages.report import report_page
from discreet.randomness import destroy_key
from discreet.verification import verify
from discreet.verification.checks.released_tensors import section
from discreet.verification.standalone import verifier_file


def publish(
    trained: TrainedRun, folder: str | Path, spec: ModelSpec | None = None, adapters: Adapters | None = None
) -> Guarantee:
    """Write the model with its proof to a new `folder` and return the certified guarantee.

    `spec` says how to build the model again; without it only the name of its class is stated. `adapters`: their files,
    and the model below them (`discreet.integrations.adapter_publishing`).

    | file                 | content                                                                         |
    |----------------------|---------------------------------------------------------------------------------|
    | model.safetensors    | the state dictionary                                                            |
    | model.json           | how to build the model and prepare its inputs, its title, curves on public rows |
    | released.safetensors | tensors that prepare inputs, if queries before the first step released them     |
    | certificate.json     | the claim and all that recomputes it                                            |
    | plan.yaml            | the plan                                                                        |
    | report.html          | the same for people, one self-contained page                                    |
    | README.md            | model card                                                                      |
    | verify.py            | a verifier in one file, for a reviewer who installs nothing                     |

    Before anything is written, every tensor that is not a private parameter is compared with its declared
    initial value. The folder appears complete or not at all; afterwards the key of the noise and the
    checkpoint are destroyed. Of several processes the first writes, and the others return the guarantee.
    """
    published = _model_of(trained)
    if not trained.publishes:
        return trained.plan.guarantee()
    target = Path(folder)
    _check_publishable(trained, target)
    check_unchanged(published, trained.initial)
    if state_digests(published) != trained.final:
        raise PrivacyViolation("the model was changed after training; publish what training returned, as it was")
    guarantee = trained.plan.guarantee()
    state = published.state_dict()
    model = as_file(state)
    base = None if adapters is None else adapters.declared(state, trained.final, private_names(published))
    facts = certificate(trained, guarantee, digest(model), base)
    released = as_file(trained.released) if trained.released else b""
    if released:
        facts["released"] = section(released, facts["plan"])
    spec = spec or of_module(trained.model)
    refuse_unsaid(trained, spec)
    described = {
        "model.json": _described(spec),
        "plan.yaml": yaml.safe_dump(facts["plan"], sort_keys=False).encode(),
        "verify.py": verifier_file(),
        "report.html": report_page(facts, trained.plan, spec).encode(),
        "README.md": model_card(facts, spec).encode(),
        **({} if adapters is None else adapters.files),
    }
    facts["files"] = {name: digest(content) for name, content in described.items()}
    refuse_faulty(facts)
    files = {
        "model.safetensors": model,
        CERTIFICATE: (json.dumps(facts, indent=2) + "\n").encode(),
        **described,
        **({RELEASED: released} if released else {}),
    }
    _write_together(files, target)
    _destroy_all(target, trained.secrets)
    return guarantee


def _described(spec: ModelSpec) -> bytes:
    """model.json; `InputError` for what no reader of the folder would take, while the run can still be published."""
    try:
        text = spec.to_json()
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the ModelSpec cannot be written: {error}; help(discreet.ModelSpec) says what it takes"
        ) from error
    ModelSpec.from_json(text)
    return text.encode()


def finish_publishing(run: str, secrets: Sequence[Path], target: Path) -> bool:
    """Destroy what is left of the secrets of a run whose model is published at `target`; whether there was any.

    A process may end, or a disk fail, between the two. False too if `target` is not what this run published, whole.
    """
    if not any(secret.exists() for secret in secrets) or not (target / CERTIFICATE).is_file():
        return False
    try:
        stated = {entry["run"] for entry in written_out(read_certificate(target)["ledger"]["entries"])}
    except (ValueError, KeyError, TypeError):
        return False
    if stated != {run} or not verify(target, signed=False).accepted:
        return False
    sync_folder(target.absolute().parent)  # perhaps the name of the published folder was not forced
    _destroy_all(target, secrets)
    return True


def refuse_faulty(facts: dict[str, Any]) -> None:
    """`InputError` for a certificate that no verifier would read."""
    fault = certificate_fault(facts)
    if fault is not None:
        raise InputError(f"every verifier would reject this certificate: {fault}; publish under other names or values")


def refuse_unsaid(trained: TrainedRun, spec: ModelSpec) -> None:
    """`InputError` unless the canaries that were trained on are those whose exposure is shown."""
    plan = trained.plan
    fault = canaries_fault(trained.canaries, plan.population, plan.holdout is not None, spec.language)
    if fault is not None:
        raise InputError(
            f"{fault}; train with public=PublicData(canaries=canaries.declared), and publish a spec whose language is "
            "OfTexts(task=..., canaries=exposures(...))"
        )


def as_file(named: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file, which keeps numbers in their order and no strides: the weights of a model in
    `torch.channels_last` are put in order."""
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()})


def _destroy_all(target: Path, secrets: Sequence[Path]) -> None:
    for secret in secrets:
        try:
            _destroy(secret)
        except (OSError, InputError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(
                f"{target} is published, but {secret} is not destroyed ({reason}), and who has the key can undo the "
                f"noise; `discreet train --resume {typed(secret.parent)}` tries again, or delete it yourself"
            ) from None


def _destroy(secret: Path) -> None:
    """Remove a private file; the key is overwritten first."""
    if secret.name == "key":
        destroy_key(secret)
    else:
        secret.unlink(missing_ok=True)


def _model_of(trained: TrainedRun) -> nn.Module:
    """The model of a run; a run that has none refuses."""
    if isinstance(trained, nn.Module):
        raise InputError("publish takes what Training.run() returned, with plan and ledger, and not the model alone")
    if not all(hasattr(trained, name) for name in ("model", "publishes", "plan")):
        got = "" if isinstance(trained, str | Path) else f", not {kind_of(trained)}"
        raise InputError(
            f"publish takes what Training.run() returned{got}, and then the folder: publish(trained, folder)"
        )
    return trained.model


def _check_publishable(trained: TrainedRun, target: Path) -> None:
    """`check_target`, with the way to publish what was trained and paid for; refused too if the run went on since."""
    trained.check_newest()
    try:
        check_target(target)
    except InputError as error:
        folder = next((one.parent for one in trained.secrets if one.name == "key" and one.is_file()), None)
        later = (
            ""
            if folder is None
            else (f", or run the script again with run=RunOptions({str(folder)!r}, resume=True) and another folder")
        )
        raise InputError(
            f"{error}; nothing is lost: publish(trained, ANOTHER) here{later}, which charges nothing more"
        ) from None


def _write_together(files: dict[str, bytes], target: Path) -> None:
    """Write beside the target, then rename, so that nobody sees half a folder; durable on return."""
    check_values(files[CERTIFICATE], CERTIFICATE)  # no verifier would read it
    try:
        with whole_folder(target) as draft:
            for name, content in files.items():
                write_durably(draft / name, content)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise InputError(
                f"another process made {target} meanwhile, and nothing in it was changed; name another folder"
            ) from None
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder that can be written") from error
