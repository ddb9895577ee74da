"""Schemes that compare turns in equal states or use the state graph."""
