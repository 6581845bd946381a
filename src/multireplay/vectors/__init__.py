"""What every compiled loop is written in: eight numbers at a time, and rows asked for before they are needed."""
