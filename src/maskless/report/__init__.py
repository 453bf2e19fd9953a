"""Results for people: tables in the terminal, figures, files."""
