"""Features of observations, as small objects that can be put side by side."""
