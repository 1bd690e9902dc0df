"""Models: what collectives should take on a machine, by closed form."""

from ._core import Hierarchies, Profile, extension_of, parse_profile, profile_names

__all__ = ["Hierarchies", "Profile", "extension_of", "parse_profile", "profile_names"]
