"""The paper's claims, judged by our numbers.

check                                `Check`: one thing that a claim says, and whether it holds
suppression, returns, deployment, classifier   functions from a result to checks, by subject
claims                               `CLAIMS`: every claim as data, with its function
verdicts                             `judge_all`: claims and results -> verdicts
page                                 the verdicts as docs/claims.md
"""
