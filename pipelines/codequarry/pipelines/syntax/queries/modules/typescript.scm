(import_require_clause source: (string (string_fragment) @source))
(program (export_statement declaration: (ambient_declaration (_ name: (_) @export))))
(program (export_statement declaration: (ambient_declaration (_ (variable_declarator name: (identifier) @export)))))
(program (export_statement "=" (identifier) @export))
