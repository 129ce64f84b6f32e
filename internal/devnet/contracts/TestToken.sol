// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// TestToken behaves like USDC where a payment service can tell the difference:
/// six decimals, an owner who mints, a blacklist, and USDC's own revert texts.
/// It is worth nothing, and its owner's key is published.
///
/// The owner may also give a recipient a behaviour, so that tests and the
/// sandbox can show the end of a payment when a token misbehaves.
contract TestToken {
    /// What a transfer to a recipient does instead of an ordinary transfer.
    enum Behaviour {
        Ordinary, // moves the amount, logs it, returns true
        RevertWhenMined, // reverts only at a gas price, so that estimation passes
        ReturnFalse // moves nothing, logs nothing, returns false
    }

    string public constant name = "USD Coin";
    string public constant symbol = "USDC";
    uint8 public constant decimals = 6;

    address public immutable owner;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => bool) public isBlacklisted;
    mapping(address => Behaviour) public behaviourOf;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Blacklisted(address indexed account);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    modifier notBlacklisted(address account) {
        require(!isBlacklisted[account], "Blacklistable: account is blacklisted");
        _;
    }

    constructor() {
        owner = msg.sender;
    }

    // ERC-20

    function transfer(address to, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(to)
        returns (bool)
    {
        return _transfer(msg.sender, to, value);
    }

    function approve(address spender, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(spender)
        returns (bool)
    {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value)
        external
        notBlacklisted(msg.sender)
        notBlacklisted(from)
        notBlacklisted(to)
        returns (bool)
    {
        require(value <= allowance[from][msg.sender], "ERC20: transfer amount exceeds allowance");
        allowance[from][msg.sender] -= value;
        return _transfer(from, to, value);
    }

    // For the owner

    function mint(address to, uint256 value) external onlyOwner {
        require(to != address(0), "FiatToken: mint to the zero address");
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    function setBehaviour(address recipient, Behaviour behaviour) external onlyOwner {
        behaviourOf[recipient] = behaviour;
    }

    // Every transfer ends here.
    function _transfer(address from, address to, uint256 value) private returns (bool) {
        require(from != address(0), "ERC20: transfer from the zero address");
        require(to != address(0), "ERC20: transfer to the zero address");
        require(value <= balanceOf[from], "ERC20: transfer amount exceeds balance");
        Behaviour behaviour = behaviourOf[to];
        // eth_call and eth_estimateGas run at a gas price of zero when the caller names none.
        require(behaviour != Behaviour.RevertWhenMined || tx.gasprice == 0, "TestToken: reverts when mined");
        if (behaviour == Behaviour.ReturnFalse) return false;
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
        return true;
    }
}
