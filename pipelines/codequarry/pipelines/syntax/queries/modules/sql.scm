(case (keyword_when) @branch)
(binary_expression operator: [(keyword_and) (keyword_or)] @branch)
