package settlementtest_test

import "remit/internal/token"

func unit(n uint64) token.Amount { return token.Units(n) }
