"""Measurements: are the masks right, and what do they do to the policy?"""
