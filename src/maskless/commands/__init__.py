"""The subcommands of `maskless`: each is a dataclass whose fields are its flags."""
