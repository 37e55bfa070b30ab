(import_require_clause source: (string (string_fragment) @source))
(export_statement declaration: (ambient_declaration (_ name: (_) @export)))
(export_statement declaration: (ambient_declaration (_ (variable_declarator name: (identifier) @export))))
(export_statement "=" (identifier) @export)
