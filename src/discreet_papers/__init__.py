"""Tables and figures of the papers, regenerated: one YAML file each, run and drawn by `discreet reproduce`."""
