"""Texts as terms, and the index of keyword queries."""
