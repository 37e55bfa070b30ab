(import module: (module) @source)
(header module: (module) @package)
(header exports: (exports) @only)
(export [
  (variable) @export
  (name) @export
  (prefix_id [(operator) (constructor_operator)] @export)])
(conditional) @branch
(alternative pattern: (_) @_pattern (#not-eq? @_pattern "_")) @branch
(match (guards (_) @_guard) (#not-eq? @_guard "otherwise")) @branch
(infix operator: (operator) @_operator (#any-of? @_operator "&&" "||")) @branch
