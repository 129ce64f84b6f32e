// Package install has the calls that put the contract of package disburser on a chain, at the same
// address on every one, and that let it take a wallet's coins.
package install

import (
	"encoding/hex"

	"github.com/ethereum/go-ethereum/crypto/keccak"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

const word = 32 // bytes of an argument (ABI specification)

// Approval returns the call of a token by which its caller lets a contract take an amount in all, from now on.
func Approval(contract token.Address, amount token.Amount) []byte {
	data, units := make([]byte, 4+word, 4+word*2), amount.Bytes32()
	copy(data, digest([]byte("approve(address,uint256)"))[:4])
	copy(data[4+word-20:], contract[:])
	return append(data, units[:]...)
}

// Deployer is the contract that creates contracts at addresses that follow from their code alone, at the same address
// on every chain: https://github.com/Arachnid/deterministic-deployment-proxy.
func Deployer() token.Address {
	return token.Address(unhex("4e59b44847b379578588920ca78fbf26c0b4956c"))
}

// DeployerCode returns the runtime code of the Deployer (its README, "Deployment").
func DeployerCode() []byte {
	return unhex("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe0" +
		"3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3")
}

// Deployment returns the data with which the Deployer makes the contract: a salt of zero, and the init code.
func Deployment() []byte { return append(make([]byte, word), disburser.InitCode()...) }

// Address returns where the Deployer makes the contract, on every chain (EIP-1014).
func Address() token.Address {
	deployer := Deployer()
	sum := digest([]byte{0xff}, deployer[:], make([]byte, word), digest(disburser.InitCode()))
	return token.Address(sum[word-20:])
}

func unhex(constant string) []byte {
	b, err := hex.DecodeString(constant)
	if err != nil {
		panic(err)
	}
	return b
}

func digest(parts ...[]byte) []byte {
	h := keccak.NewLegacyKeccak256()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
