"""The only place where the version stands: wheels, certificates and `discreet --version` read it here."""

__version__ = "0.2.0.dev0"
