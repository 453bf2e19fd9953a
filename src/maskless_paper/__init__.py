"""The paper's reproduction: `maskless reproduce` and `maskless theory` import it when called.

    studies, plans         what is trained: environment, network, conditions, seeds, at each scale
    run, evaluator         trains a plan and evaluates it at its budgets
    downsampling           a run's log as short curves
    study_files            the JSON of a finished study
    results                numbers with their range over seeds, read from such files
                           (cells: the range; logged: the part that reads logs)
    reported               what the paper reports, as data
    tables/                one file for each table or figure, made from results
    claims/                the paper's claims, judged by results: docs/claims.md
    numbers/, prose        every number in a sentence of our pages, and the check that none is typed
    theory/                the paper's theorems, checked numerically: docs/theory.md
    reproduce              from the names of tables to their files: trains, evaluates, writes

Modules import downwards only, which `make lint` checks: reproduce and numbers, then tables and
claims (neither knows the other), results, run, and below them studies, study_files and theory.
"""
