"""Request state: deadline, trace and admission."""
