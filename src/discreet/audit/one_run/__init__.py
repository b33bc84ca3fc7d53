"""Audits in one run: one whole training on public or made-up rows, with canaries that coins put in or leave out."""
