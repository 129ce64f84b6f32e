// Package install has the calls that put package disburser's contract on a chain, and let it take a wallet's coins.
package install

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Approval returns the call of a token by which its caller lets a contract take an amount in all, from now on.
func Approval(contract token.Address, amount token.Amount) []byte {
	units := amount.Bytes32()
	return slices.Concat(token.Selector("approve(address,uint256)"), make([]byte, 12), contract[:], units[:])
}

// Deployer is the contract that creates contracts at addresses that follow from their code alone, at the same address
// on every chain: https://github.com/Arachnid/deterministic-deployment-proxy.
func Deployer() token.Address {
	return token.Address(common.HexToAddress("4e59b44847b379578588920ca78fbf26c0b4956c"))
}

// DeployerCode returns the runtime code of the Deployer (its README, "Deployment").
func DeployerCode() []byte {
	return common.FromHex("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0" +
		"3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3")
}

var salt [32]byte

// Deployment returns the data with which the Deployer makes the contract: the salt, and the init code.
func Deployment() []byte { return slices.Concat(salt[:], disburser.InitCode()) }

// Address returns where the Deployer makes the contract, on every chain (EIP-1014).
func Address() token.Address {
	code := crypto.Keccak256(disburser.InitCode())
	return token.Address(crypto.CreateAddress2(common.Address(Deployer()), salt, code))
}
