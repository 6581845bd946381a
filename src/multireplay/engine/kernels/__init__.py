"""The compiled loops and what they are made of. Nothing here decides anything: the engines call them."""
