"""The terms of texts, and the index of keyword queries."""
