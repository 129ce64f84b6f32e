module generated

go 1.26.0
