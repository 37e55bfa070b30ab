[(for_range_loop) (catch_clause) (binary_expression operator: ["and" "or"])] @branch
