"""The paper's experiments and the controls it lacks: `maskless reproduce NAME --scale SCALE`.

`studies` says what is trained, `run` trains and evaluates it into one small JSON, and one file for
each table or figure makes that out of such JSONs. `claims` judges the paper's claims by them.
"""
