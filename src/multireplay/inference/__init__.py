"""How well the record knows what it says: standard errors under dependence."""
