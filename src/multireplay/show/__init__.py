"""What people see in a terminal, a notebook or a figure: tables, progress bars, plots."""
