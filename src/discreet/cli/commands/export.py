"""`discreet export`: a published model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    file: Annotated[Path, typer.Argument(help="The .onnx file to write; it must not be there.")],
) -> None:
    """Write a published model, with the preparation of its inputs, as an ONNX file that predicts the same."""
    from discreet.prediction.onnx_export import OPSET, export_onnx

    written = export_onnx(folder, file)
    typer.echo(f"{written}: from rows to scores, operators of ONNX {OPSET}; it says what the model says")
