// The settings of Hardhat's node in the acceptance run: blocks are made on demand.
module.exports = {
  networks: {
    hardhat: {
      chainId: Number(process.env.REMIT_CHAIN_ID),
      mining: { auto: false, interval: 0 },
      allowBlocksWithSameTimestamp: true,
    },
  },
};
