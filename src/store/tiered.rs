//! Memory in front of a far tier.
