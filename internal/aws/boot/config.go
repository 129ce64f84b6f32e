package boot

import (
	"log/slog"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
)

// coin reads the parameters of the token and its chain.
func coin(env *Env) map[string]string {
	return map[string]string{
		"ChainId": env.String("CHAIN_ID"), "Network": env.Optional("NETWORK", ""), "TokenAddress": env.Optional("TOKEN_ADDRESS", ""),
		"TokenSymbol": env.Optional("TOKEN_SYMBOL", ""), "TokenDecimals": env.Optional("TOKEN_DECIMALS", ""),
	}
}

// Config returns the configuration of both engines: the environment's and, for each part that is empty there, the
// chain's own, but in live mode the rule finalized. For an unknown chain it logs which values the stack has.
func Config(env *Env) stack.Config {
	parameters := coin(env)
	parameters["Mode"], parameters["BlockTime"] = env.String("MODE"), env.Optional("BLOCK_TIME", "")
	parameters["ConfirmationRule"] = env.Optional("CONFIRMATION_RULE", "")
	config, err := chains.Read(parameters)
	env.Refuse(err)
	config.Live = config.Mode == "live" || chains.IsMain(config.ChainID)
	if _, known := chains.Of(config.ChainID); !known && config.ChainID > 0 {
		slog.Warn("chain is not known", "chain_id", config.ChainID, "confirmation_rule", config.ConfirmationRule.String(),
			"block_time", config.BlockTime.String(), "fee_limit", config.Own.FeeLimit.String(), "window", config.Own.Window)
	}
	return config
}
