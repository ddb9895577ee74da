"""Schemes that compare turns at equal states or read the state graph."""
