"""From the arguments of one call to one resolved run, and from what it found to an answer in words."""
