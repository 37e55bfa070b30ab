(import_statement source: (string (string_fragment) @source))
(import_statement (import_clause (identifier) @alias) source: (string (string_fragment) @source))
(import_statement (import_clause (named_imports (import_specifier name: (_) @name !alias)))
  source: (string (string_fragment) @source))
(import_statement (import_clause (named_imports (import_specifier name: (_) @name alias: (_) @alias)))
  source: (string (string_fragment) @source))
(export_statement (export_clause (export_specifier name: (_) @name !alias))
  source: (string (string_fragment) @source))
(export_statement (export_clause (export_specifier name: (_) @name alias: (_) @alias))
  source: (string (string_fragment) @source))
(export_statement . "export" . "*" @name source: (string (string_fragment) @source))
(export_statement source: (string (string_fragment) @source))
(call_expression function: (import) arguments: (arguments . (string (string_fragment) @source)))
(call_expression function: (identifier) @_require arguments: (arguments . (string (string_fragment) @source))
  (#eq? @_require "require"))
[(import_statement) (export_statement source: (_)) (export_statement (export_clause))] @plain
(program (expression_statement (assignment_expression
  left: (member_expression object: (identifier) @_module property: (property_identifier) @_exports)
  right: (call_expression function: (identifier) @_require))) @plain
  (#eq? @_module "module") (#eq? @_exports "exports") (#eq? @_require "require"))

(program (export_statement declaration: (_ name: (_) @export)))
(program (export_statement declaration: (_ (variable_declarator name: (identifier) @export))))
(program (export_statement "default" @export))
(export_statement "default" declaration: (_ name: (_) @skip))
(program (export_statement (export_clause [
  (export_specifier name: (_) @export !alias)
  (export_specifier alias: (_) @export)])))
(program (export_statement (namespace_export (_) @export)))
(assignment_expression
  left: (member_expression object: (identifier) @_exports property: (property_identifier) @export)
  (#eq? @_exports "exports"))
(assignment_expression
  left: (member_expression
    object: (member_expression object: (identifier) @_module property: (property_identifier) @_exports)
    property: (property_identifier) @export)
  (#eq? @_module "module") (#eq? @_exports "exports"))
(assignment_expression
  left: (member_expression object: (identifier) @_module property: (property_identifier) @_exports)
  right: [
    (identifier) @export
    (function_expression name: (identifier) @export)
    (class name: (_) @export)
    (object [
      (shorthand_property_identifier) @export
      (pair key: (property_identifier) @export)
      (method_definition name: (property_identifier) @export)])]
  (#eq? @_module "module") (#eq? @_exports "exports"))

(program (if_statement condition: (parenthesized_expression (binary_expression left: (member_expression
  object: (identifier) @_require property: (property_identifier) @_main)))) @entry
  (#eq? @_require "require") (#eq? @_main "main"))
[(if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (switch_case) (catch_clause)
 (ternary_expression) (binary_expression operator: ["&&" "||" "??"])] @branch
