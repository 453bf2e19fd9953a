"""The paper's claims, judged by our numbers."""
